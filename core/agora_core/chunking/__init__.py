"""Cut texts and documents into chunks."""

from agora_core.chunking.prose import BLANKS as BLANKS
from agora_core.chunking.prose import DEFAULT_CHUNK_SIZE as DEFAULT_CHUNK_SIZE
from agora_core.chunking.prose import DEFAULT_OVERLAP as DEFAULT_OVERLAP
from agora_core.chunking.prose import check_document as check_document
from agora_core.chunking.prose import check_separator as check_separator
from agora_core.chunking.prose import check_sizes as check_sizes
from agora_core.chunking.prose import chunk_documents as chunk_documents
from agora_core.chunking.prose import chunk_text as chunk_text
from agora_core.chunking.prose import chunks_of as chunks_of
from agora_core.chunking.prose import iterate_documents as iterate_documents
from agora_core.chunking.prose import without_nul as without_nul
