// Search works from a folder, too: browsers give no worker to pages that come from files, so the
// worker's script runs in a hidden frame, which answers by messages as a worker would.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      this.ready = new Promise((done) => frame.addEventListener("load", done, { once: true }));
      const script = document.createElement("script");
      script.src = new URL(url, location);
      const answers = "<script>var postMessage = (data) => parent.postMessage(data, '*')<\/script>";
      frame.srcdoc = answers + script.outerHTML;
      document.documentElement.append(frame);
      this.frame = frame;
      addEventListener("message", (event) => {
        if (event.source === frame.contentWindow) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
        }
      });
    }

    postMessage(data) {
      this.ready.then(() =>
        this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })),
      );
    }

    terminate() {
      this.frame.remove();
    }
  };
}
