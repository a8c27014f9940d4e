"""Triggers for Airflow's triggerer."""
