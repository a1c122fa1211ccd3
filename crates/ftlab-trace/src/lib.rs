//! Trace formats, workload generators and trace statistics.
