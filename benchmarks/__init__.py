"""What stackgen costs and how right it is, beside its peers; each file is a script."""
