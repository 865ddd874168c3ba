"""Programs that measure Banyan: thread counts, rivals, tables."""
