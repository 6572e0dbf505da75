"""How gunicorn runs examples.fastapi_service: the application is made once, then the workers are forked."""

bind = "127.0.0.1:8000"
workers = 2
worker_class = "asgi"  # gunicorn's own, from 25 on; "uvicorn_worker.UvicornWorker" with older ones
preload_app = True
