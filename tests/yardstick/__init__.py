"""What must stay the same while the house is rebuilt: needs of studies, and forecasts.

`needs.json` is what every committed study needs measured; a test compares. `predictions.csv` is
what `make accuracy` forecasts, with the runs each fit saw. Its figures hold on one kind of machine
to the last digits, so it is compared by hand, on the machine that wrote it (CONTRIBUTING.md):

    make accuracy && STEPCAST_HOME=.stepcast/accuracy python -m tests.yardstick predictions
    python -m tests.yardstick needs --write
"""
