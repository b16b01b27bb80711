-- Put in front of every script that carries on what was taken in. A server at its maxmemory refuses the first write of a
-- script if that may take room, and none after it: so the first write of these deletes a key that never exists.

call('DEL', KEYS[1] .. ':never')
