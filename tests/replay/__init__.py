"""Ten inputs whose plans, shapes and archives were recorded: a change of the code must not change them unnoticed."""
