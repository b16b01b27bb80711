// How far one reply came.

import { copy, element } from "./fetched.js";
import { moment, number, reason, write } from "./words.js";

const STATES = { pending: "queued", sent: "completed", failed: "failed", unknown: "timed_out" }; // their colours

export class Delivery {
  element = copy(element("delivery-template"));

  show(reply) {
    this.element.dataset.state = STATES[reply.state] ?? "queued";
    write(this.element, ".status", reply.state);
    write(this.element, ".channel", reply.channel);
    write(this.element, ".reply", reply.reply_id);
    write(this.element, ".reason", reason(reply.reason));
    write(this.element, ".parts", reply.chunks ? `${number(reply.chunks_sent)} of ${number(reply.chunks)}` : "–");
    write(this.element, ".attempts", number(reply.attempts));
    write(this.element, "time", moment(reply.created_at));
    this.element.querySelector("time").dateTime = reply.created_at;
  }
}
