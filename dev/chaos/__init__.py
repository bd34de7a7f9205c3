"""Chaos: the real stack under steady load, one fault at a time, and proof that nothing went wrong.

`stage` is all that can be struck, `faults_*` the faults, `trial` one fault from its strike to its
line of the scorecard. What judges shares no code with what is judged: `audit` and `topics` know the
law from the specification, and `ledger` what the load was told.
"""
