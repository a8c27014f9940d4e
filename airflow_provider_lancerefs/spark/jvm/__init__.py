"""The data source `lancerefs` in the JVM, for sessions that have one at hand.

The Java here knows nothing of Lance. It hands filters, columns and Arrow batches between Spark and
the Python process that each executor has, and the driver (`serving`), where it is also decided what
becomes of it all. See docs/decisions/0009-jvm-side.md.
"""
