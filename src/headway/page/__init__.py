"""The live page: a run on this machine in a browser. The run publishes values; the page reads them."""
