// redis-semaphore: `Mutex` on one node, `RedlockMutex` on more.
"use strict";

const { Mutex, RedlockMutex } = require("redis-semaphore");

module.exports = (connections, ttl) => {
  // A lost lock would otherwise end the process.
  const options = { lockTimeout: ttl, onLockLost: () => {} };
  return {
    package: "redis-semaphore",
    // Asks once with the library's own retries, and rejects if it gave up.
    async acquire(name) {
      const mutex =
        connections.length === 1
          ? new Mutex(connections[0], name, options)
          : new RedlockMutex(connections, name, options);
      await mutex.acquire();
      return mutex;
    },
  };
};
