"""Sensors for Airflow."""
