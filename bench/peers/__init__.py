"""Other job queues, called through their public interfaces, to be measured beside Onward in one run."""
