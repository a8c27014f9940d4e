"""Our own reader and writer in the JVM, for sessions that have one at hand.

The Java here knows nothing of Lance. It hands filters, columns and Arrow batches between Spark and
a Python process that each executor has (`serving`), and the driver's Python decides what becomes of
it all (`engine`). See docs/decisions/0009-jvm-side.md.
"""
