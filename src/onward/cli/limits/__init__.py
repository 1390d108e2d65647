"""Commands for limits, queue policies, pauses and the gate."""
