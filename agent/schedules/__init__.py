"""What people and the model want later: the words for it, the rules of recurrence, the desk that takes orders."""
