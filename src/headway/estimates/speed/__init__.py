"""How speed depends on size: the model, the fit to measurements, and what is believed before there are any."""
