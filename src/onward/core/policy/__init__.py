"""What an application declares: settings, categories, contract, retention."""
