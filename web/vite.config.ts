/// <reference types="vitest/config" />
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  // The whole page is served by the service itself; charts are the bulk of it.
  build: { chunkSizeWarningLimit: 800, target: "es2022" },
  server: { proxy: { "/api": "http://127.0.0.1:8080" } },
  test: { include: ["src/**/*.test.ts"] },
});
