/// <reference types="vitest/config" />
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// `npm run dev` draws the page over a service that runs already.
const service = process.env.ELASTUNE_SERVER ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [svelte()],
  // The whole page is served by the service itself; charts are the bulk of it.
  build: { chunkSizeWarningLimit: 800, target: "es2022" },
  server: { proxy: { "/api": service, "/docs": service, "/login": service } },
  test: { include: ["src/**/*.test.ts"], css: true },
});
