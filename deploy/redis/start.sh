#!/bin/sh
# Starts a lock node; after a restart with a delay, if RESTART_DELAY (seconds) asks for one.
#
# quorlock needs none: its clients see that the node forgot its locks and do not count its votes until those are over.
# Other Redlock clients on the same nodes do not look. For them a node must stay away for longer than the longest ttl:
# RESTART_DELAY=45 with a longest ttl of 30 s. `restart:` of Docker cannot wait, so this does.
set -eu

mark=${MARK:-/data/was-started}
if [ -e "$mark" ] && [ "${RESTART_DELAY:-0}" -gt 0 ]; then
    echo "restarted: waiting ${RESTART_DELAY}s so that forgotten locks are over"
    sleep "$RESTART_DELAY"
fi
touch "$mark"
exec redis-server "$@"
