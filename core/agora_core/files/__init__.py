"""Files into documents."""

from agora_core.files.chunking import FileChunker as FileChunker
from agora_core.files.parts import FilePart as FilePart
from agora_core.files.parts import UnreadableFileError as UnreadableFileError
from agora_core.files.parts import UnsupportedContentTypeError as UnsupportedContentTypeError
from agora_core.files.reading import read_files as read_files
from agora_core.files.watching import watch_files as watch_files
