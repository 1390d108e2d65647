"""Why a queue is stuck, or a job has not run: rules over facts."""
