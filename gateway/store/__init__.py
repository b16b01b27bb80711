"""Truth: sessions, transcripts, answers and grants in SQLite or PostgreSQL. The only importer of SQLAlchemy.

`open_store(url)` opens it. `gateway.store.migrations.migrate(url)` brings the schema up to date; it alone
loads Alembic."""

from gateway.store.store import Store, open_store

__all__ = ["Store", "open_store"]
