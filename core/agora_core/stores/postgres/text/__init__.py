"""Text search in Postgres by this library's own analysers: postings in tables beside the records, scored here."""
