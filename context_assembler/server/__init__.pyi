from context_assembler.server.app import Worker as Worker
from context_assembler.server.app import create_app as create_app
from context_assembler.server.running import run as run
