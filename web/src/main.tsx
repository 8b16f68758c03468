import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { newQueryClient } from "./app/queryClient";
import { newRouter } from "./app/router";
import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";
import { Toasts } from "./ui/Toasts";

const root = document.getElementById("root");
if (root === null) throw new Error("the page has no #root");
const client = newQueryClient();
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <Toasts>
        <RouterProvider router={newRouter(client)} />
      </Toasts>
    </QueryClientProvider>
  </StrictMode>,
);
