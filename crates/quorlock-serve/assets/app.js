"use strict";
async function show() {
  const answer = await fetch("/v1/overview");
  document.getElementById("overview").textContent = JSON.stringify(await answer.json(), null, 2);
}
show();
setInterval(show, 2000);
