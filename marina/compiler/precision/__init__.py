"""The precision of a model: choice.py decides by trials, trials.py makes them."""
