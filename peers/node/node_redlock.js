// node-redlock.
"use strict";

const { default: Redlock } = require("redlock");

module.exports = (connections, ttl) => {
  const locks = new Redlock(connections);
  locks.on("error", () => {}); // it reports every ordinary "held" here as well
  return {
    package: "redlock",
    // Asks once with the library's own retries, and rejects if it gave up.
    acquire: (name) => locks.acquire([name], ttl),
    // Holds `name` until `over` resolves; calls `held` when it is granted and `lost` if it is lost.
    keep: (name, over, held, lost) =>
      locks.using([name], ttl, async (signal) => {
        signal.addEventListener("abort", lost);
        held();
        await over;
      }),
  };
};
