"""The diagnosis of a stuck queue or a job that has not run: checks over facts that were read before."""
