// go run . TOPIC: enqueues a message, prints its id (libpq's environment).
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
)

func main() {
	ctx := context.Background()
	connection, err := pgx.Connect(ctx, "")
	if err != nil {
		log.Fatal(err)
	}
	defer connection.Close(ctx)
	err = pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		var id string
		err := tx.QueryRow(ctx, "SELECT outbox.enqueue($1, $2::bigint, $3, $4::json, topic => $5)::text",
			"order", 42, "order_paid", `{"amount": "9.90"}`, os.Args[1]).Scan(&id)
		if err == nil {
			fmt.Println(id)
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}
