"""The precision of a model: choice.py chooses it by trials, trials.py runs them."""
