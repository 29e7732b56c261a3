"""The fault campaign: real processes, injected faults, and a checker that reads only what they left.

`python -m testing.chaos --seconds 600 --seed N`. Law: whatever a bug needs to be seen is
composed here; the product has no switch for it.
"""
