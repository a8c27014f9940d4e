"""`python -m airflow_provider_lancerefs.cli`: the console command without its script."""

import sys

from airflow_provider_lancerefs.cli.command import main

sys.exit(main())
