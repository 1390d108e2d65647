"""Circuit breakers: what is held while a provider pushes back."""
