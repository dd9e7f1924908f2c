"""How results of the memory are shown: in full, or in one line each."""
