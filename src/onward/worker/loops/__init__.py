"""The loops that run beside the claimer."""
