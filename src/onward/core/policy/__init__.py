"""The policies that an application declares: settings, categories, contract, retention."""
