"""The rows that match a filter, from an index of metadata: what the memory store and the keyword index share."""

from agora_core.metadata_index.index import MetadataIndex as MetadataIndex
from agora_core.metadata_index.index import RowSet as RowSet
from agora_core.metadata_index.postings import NO_ROWS as NO_ROWS
from agora_core.metadata_index.postings import Entry as Entry
from agora_core.metadata_index.postings import PathIndex as PathIndex
from agora_core.metadata_index.postings import Posting as Posting
