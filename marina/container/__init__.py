"""What images of `marina deploy image` run: the host `direct`, or TorchServe behind nginx, configured by variables.

Enters: environment variables. Leaves: a server on the container's ports. Not known here: which target runs the image.

settings.py     the environment variables
proxy.py        nginx: the ports that others reach, SageMaker's URLs, the token
nginx.conf      its configuration, as a template
probes.py       whether the server is ready, by its workers; and the metrics
refusals.py     counts what nginx refuses
check.py        a health check from inside
__main__.py     the entry point

The host `direct` has the container's ports itself, and needs neither nginx nor the probes. With TorchServe they belong
to nginx: TorchServe and the probes listen on loopback, on ports that are free.
"""
