// Shared by all tabs of a browser: HTTP/1.1 gives one origin six connections, and the seventh tab would hang.
import { Stream } from "./stream.js";

const stream = new Stream();

onconnect = ({ ports: [port] }) => {
  port.onmessage = ({ data }) => {
    if (data.leave) stream.leave(port);
    else stream.join(port, data.topics, data.since, (message) => port.postMessage(message));
  };
};
