"""Who does the work: this process, processes beside it, a cluster, or the streams of a device."""
