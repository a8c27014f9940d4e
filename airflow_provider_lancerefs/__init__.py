"""Branches, tags and shallow clones of Lance tables for Apache Airflow.

Nothing is imported here: a Spark executor that imports `airflow_provider_lancerefs.spark` runs this
module too, and has no Airflow.
"""
