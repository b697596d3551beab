"""PredictDDL: steps of networks that never ran, from their graphs and what others took."""
