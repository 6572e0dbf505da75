"""The life of a corpus: keep an index equal to a source of truth, at the cost of what changed."""

from agora_core.corpus.permissions import async_sync_permissions as async_sync_permissions
from agora_core.corpus.permissions import sync_permissions as sync_permissions
from agora_core.corpus.reembedding import async_reembed as async_reembed
from agora_core.corpus.reembedding import reembed as reembed
from agora_core.corpus.report import SyncReport as SyncReport
from agora_core.corpus.syncing import async_sync_documents as async_sync_documents
from agora_core.corpus.syncing import sync_documents as sync_documents
