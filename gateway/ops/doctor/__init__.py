"""`trivet doctor`: finds what is wrong and says how to mend it. Changes nothing."""
