"""What an error that a handler raised means: rules in their order, each with a name."""
