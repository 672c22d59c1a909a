"""Who Headway is to its own pods and they to it: keys, certificates, tokens."""
