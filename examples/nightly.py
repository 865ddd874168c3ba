"""A folder of documents becomes a table, every night: only documents that are new or were changed are read again.

    python3 examples/nightly.py FOLDER TABLE.parquet "Who signed it?" "When was it signed?" [--model NAME]

Airflow, Dagster and cron call it as it is: it ends with 0 when the table is whole, 1 when some documents could not be
read (their rows say why), and another code when nothing could be done. Killed at any moment, it goes on where it was.
"""
import argparse
import os
import sys

import banyan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("table")
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--model")
    arguments = parser.parse_args()
    journal = arguments.table + ".rows.jsonl.gz.journal"  # what earlier nights did
    rows = banyan.ask(arguments.folder, arguments.questions, model=arguments.model, output=arguments.table,
                      resume=os.path.exists(journal), too_long="split")
    receipt = rows.receipt
    print(f"{receipt['rows']} rows in {arguments.table}: {receipt['rows_this_run']} new or changed, "
          f"{receipt['rows_removed']} removed, {receipt['error_rows']} errors")
    return 1 if receipt["error_rows"] else 0


if __name__ == "__main__":
    sys.exit(main())
